"""The test suite. A package, so that tests can share helpers under an unambiguous name."""
