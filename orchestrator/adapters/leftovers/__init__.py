"""What runs of ours may leave behind when they are killed: found here, removed by `reap`.

Each module finds one kind and says whose each thing is; none of them decides anything.
"""
