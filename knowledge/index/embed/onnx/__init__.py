"""Transformer models from files on this machine, run by the optional package onnxruntime."""
