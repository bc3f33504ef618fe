"""What tests share about disks that forget, fill up or refuse, and what is written to them."""
