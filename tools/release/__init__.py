"""What `make release` makes: wheels, an sdist, an SBOM and checksums, the same bytes from the same commit."""
