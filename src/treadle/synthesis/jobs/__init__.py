"""Different collectives at once, by linear programs whose columns are trees and paths."""
