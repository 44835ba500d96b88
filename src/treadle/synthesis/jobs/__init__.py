"""Different concurrent collectives, by linear programs whose columns are trees and paths."""
