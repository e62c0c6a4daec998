"""HtFLlib's networks on sensors, reviews and texts in plain PyTorch.

Texts are tokens [B, L]; 0 is padding at the end, which has no effect. Bodies end before
the classifier and have no dropout of features.
"""

import itertools
import math

import torch
from torch import nn
from torch.nn import functional as F


class HARCNN(nn.Module):
    """Convolutions over time with ReLU and max pooling, for sensors."""

    def __init__(self, channels, layers, stride):
        super().__init__()
        self.layers, inputs = layers, channels
        for i in range(layers):
            conv = nn.Conv2d(inputs, 32 * 2**i, (1, 5 if layers == 3 else 9), stride)
            pool = nn.MaxPool2d((1, 2), 2)
            self.add_module(f"conv{i + 1}", nn.Sequential(conv, nn.ReLU(), pool))
            inputs = 32 * 2**i

    def forward(self, x):
        """Maps [B, channels, 1, time] to [B, features]."""
        for i in range(self.layers):
            x = getattr(self, f"conv{i + 1}")(x)
        return x.flatten(1)


class AmazonMLP(nn.Module):
    """Linear layers with ReLU, for Amazon reviews."""

    def __init__(self, *widths):
        super().__init__()
        layers = []
        for pair in itertools.pairwise(widths):
            layers += [nn.Linear(*pair), nn.ReLU()]
        self.encoder = nn.Sequential(*layers)

    def forward(self, x):
        """Maps [B, inputs] to [B, last width]."""
        return self.encoder(x)


def packed(embedding, layers, x):
    """Runs recurrent layers over the words, without the padding."""
    length = (x != 0).sum(1)
    options = {"batch_first": True, "enforce_sorted": False}
    words = nn.utils.rnn.pack_padded_sequence(embedding(x), length, **options)
    return layers(words)[1]


class LSTM(nn.Module):
    """Two LSTM layers; features are the last output after a ReLU."""

    def __init__(self, words, width):
        super().__init__()
        self.embedding = nn.Embedding(words, width, 0)
        self.lstm = nn.LSTM(width, width, 2, batch_first=True, dropout=0.2)

    def forward(self, x):
        """Maps [B, L] to [B, width]."""
        return F.relu(packed(self.embedding, self.lstm, x)[0][-1])


class GRU(nn.Module):
    """Two GRU layers; features are the last output."""

    def __init__(self, words, width):
        super().__init__()
        self.embedding = nn.Embedding(words, width, 0)
        self.gru = nn.GRU(width, width, 2, batch_first=True, dropout=0.2)

    def forward(self, x):
        """Maps [B, L] to [B, width]."""
        return packed(self.embedding, self.gru, x)[-1]


class BiLSTM(nn.Module):
    """Bidirectional LSTM, with a linear layer on the last state of both directions."""

    def __init__(self, words, width):
        super().__init__()
        self.word_embeddings = nn.Embedding(words, width, 0)
        self.lstm_layer = nn.LSTM(width, width, batch_first=True, bidirectional=True)
        self.fc1 = nn.Linear(2 * width, width)

    def forward(self, x):
        """Maps [B, L] to [B, width]."""
        last = packed(self.word_embeddings, self.lstm_layer, x)[0]
        return self.fc1(torch.cat([last[0], last[1]], 1))


class Mean(nn.Module):
    """Mean of the word embeddings."""

    def __init__(self, words, width):
        super().__init__()
        self.embedding = nn.Embedding(words, width, 0)

    def forward(self, x):
        """Maps [B, L] to [B, width]."""
        return self.embedding(x).sum(1) / (x != 0).sum(1, keepdim=True)


class Transformer(nn.Module):
    """PyTorch's encoder with a class token, and positions as sines and cosines."""

    def __init__(self, words, width, layers, heads):
        super().__init__()
        self.embedding = nn.Embedding(words, width, 0)
        nn.init.uniform_(self.embedding.weight, -0.1, 0.1)
        self.embedding.weight.data[0] = 0
        self.class_token = nn.Parameter(torch.zeros(1, 1, width))
        options = {"dim_feedforward": width, "dropout": 0.5, "batch_first": True}
        layer = nn.TransformerEncoderLayer(width, heads, **options)
        # nested tensors take another path in evaluation than in training
        self.encoder = nn.TransformerEncoder(layer, layers, enable_nested_tensor=False)
        self.drop = 0.5

    def forward(self, x):
        """Maps [B, L] to [B, width]."""
        present = F.pad(x != 0, (1, 0), value=True)
        x = self.embedding(x)
        length, width = x.shape[1:]
        rate = torch.exp(torch.arange(0, width, 2) * (-math.log(10_000.0) / width))
        angle = torch.arange(length)[:, None] * rate.to(x)
        position = torch.zeros(length, width).to(x)
        position[:, 0::2], position[:, 1::2] = torch.sin(angle), torch.cos(angle)
        x = F.dropout(x + position, self.drop, self.training)
        x = torch.cat([self.class_token.expand(len(x), -1, -1), x], 1)
        return self.encoder(x, src_key_padding_mask=~present)[:, 0]


BODIES = {  # name -> shape of an example, or words and width of texts -> body
    "harcnn": lambda shape: HARCNN(shape[1], 2, 1),
    "harcnn+layers=1+stride=3": lambda shape: HARCNN(shape[1], 1, 3),
    "harcnn+layers=3+stride=2": lambda shape: HARCNN(shape[1], 3, 2),
    "amazon_mlp": lambda shape: AmazonMLP(*shape, 100),
    "amazon_mlp+hidden=20-10": lambda shape: AmazonMLP(*shape, 20, 10, 100),
    "lstm": lambda sizes: LSTM(*sizes),
    "gru": lambda sizes: GRU(*sizes),
    "bilstm": lambda sizes: BiLSTM(*sizes),
    "text_logistic": lambda sizes: Mean(*sizes),
    "transformer": lambda sizes: Transformer(*sizes, 2, 8),
    "transformer+layers=1+heads=2": lambda sizes: Transformer(*sizes, 1, 2),
}
