"""What `watch` needs of a running job: the recorder on, an ear in every rank, who stands where."""
