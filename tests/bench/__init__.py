"""What measuring costs. Each part prints figures and asserts none."""
