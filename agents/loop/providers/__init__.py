"""Language models behind the port of `provider.py`; each adapter loads its vendor's package when it is built."""
