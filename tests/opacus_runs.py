"""Small Opacus training runs."""

RECORDS, BATCH_SIZE = 240, 24
BATCHES = RECORDS // BATCH_SIZE
RATE = 1 / BATCHES
NORM = 1.0


def parts(batch_size=BATCH_SIZE, records=RECORDS, **loading):
    """What `make_private` takes: a model, an optimizer, a loader and the clipping norm."""
    import torch
    from torch.utils.data import DataLoader, TensorDataset

    torch.manual_seed(0)
    inputs = torch.randn(records, 5)
    model = torch.nn.Linear(5, 2)
    return {
        "module": model,
        "optimizer": torch.optim.SGD(model.parameters(), lr=0.1),
        "data_loader": DataLoader(
            TensorDataset(inputs, (inputs[:, 0] > 0).long()), batch_size=batch_size, **loading
        ),
        "max_grad_norm": NORM,
    }


def train(model, optimizer, loader, epochs=1, accumulate=1):
    """Take a step after every `accumulate` batches; return the number of batches."""
    import torch

    batches = 0
    for _ in range(epochs):
        for inputs, labels in loader:
            if batches % accumulate == 0:
                optimizer.zero_grad()
            batches += 1
            torch.nn.functional.cross_entropy(model(inputs), labels).backward()
            if batches % accumulate == 0:
                optimizer.step()
    return batches


def weights_of(model):
    """All weights in one vector."""
    import torch

    return torch.cat([each.detach().flatten() for each in model.parameters()]).clone()
