"""Drafters of the authors of SpecDec, models of transformers and packed weights, as this project
reads them."""
