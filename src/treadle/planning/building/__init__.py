"""What it takes to build a fabric: floor, cables, prices, planes, growth, failures, and what was cabled."""
