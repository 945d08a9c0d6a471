"""How data loaders and batch selections of other libraries draw their batches."""
