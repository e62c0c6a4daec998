"""TFDS builders of data sets that TFDS lacks: `tiny_imagenet` and `gtsrb43`.

Importing `tiny_imagenet` or `gtsrb` registers the set for `tfds.builder`. The builders
yield encoded images, so that TFDS prepares these sets without TensorFlow.
"""
