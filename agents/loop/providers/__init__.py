"""Language models behind the port in `model/ports.py`; each adapter loads its vendor's package when it is built."""
