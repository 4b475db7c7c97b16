"""The control loop: what is seen, what follows, and when. It knows neither Kubernetes nor files."""
