// not the one
