"""Plans of compiled reorders: the value (`plan`), and the dialect `kernel` that holds it as IR (`ops`)."""
