package httpgate

// byteSet has letters, digits and others.
func byteSet(others string) (set [256]bool) {
	const letters = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789"
	for _, c := range []byte(letters + others) {
		set[c] = true
	}
	return set
}
