"""The control loop. It observes objects and decides; it knows neither Kubernetes nor files."""
