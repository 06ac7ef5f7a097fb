"""Shows Aqueduct at work on real servers, breaks it on the way, and proves that nothing was lost."""
