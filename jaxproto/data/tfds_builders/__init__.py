"""TFDS builders of data sets that TFDS lacks: `tiny_imagenet` and `gtsrb43`.

Importing `tiny_imagenet` or `gtsrb` makes the set known to `tfds.builder`. Images are
handed over encoded, so TFDS prepares these sets without TensorFlow.
"""
