"""`vllm-arms doctor`: is this machine able to run it? Nothing is started, nothing is changed."""
