"""Plan files: a zip of JSON and arrays, read with distrust."""
