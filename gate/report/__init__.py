"""What a run says, for people and for programs. Every number comes from a `Summary`."""
