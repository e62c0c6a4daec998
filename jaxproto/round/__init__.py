"""One round: participants, local training, uploads, aggregation, evaluation."""
