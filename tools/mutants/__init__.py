"""Small faults planted in the package, one at a time: `python -m tools.mutants --help`.

`operators` and `core_operators` list what can be changed in a file of Python or of the compiled core.
`blocks` writes a copy of the package that counts which blocks of code a test runs; with that map `choose`
knows which tests matter for a line. `trial` plants one fault in a copy of the tree, has `fork_server` run
those tests until one fails, and says what became of it. A fault that no test notices is a *survivor*: a hole
in the tests, or a change that means nothing.
"""
