"""HTML reports of plans, steps, designs and parallel plans."""
