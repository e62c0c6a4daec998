"""The experiments of the papers: data sets, variants, published numbers, tables."""
