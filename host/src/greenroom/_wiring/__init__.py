"""What ties the packages of the domain to a host: they know the kernel, the kernel does not know them."""
