"""The engine in C++ for CPUs: products, attention, whole passes, in one shared object a variant."""
