"""One module for each way of scoring a rollout; a module has the name under which its judge is registered."""
