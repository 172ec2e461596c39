package farm

// Renew replaces the secrets, as a reload does: the first one seals, all open. On an error they stay.
func (f *Farm) Renew(secrets [][]byte) error { return f.sealer.Renew(secrets) }

// Expect changes how many nodes the configuration lists; 0 where it names none.
func (f *Farm) Expect(nodes int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.expected = nodes
}

// Skip notes that something about a shared state was not sent. The other nodes will ask for a snapshot.
func (f *Farm) Skip(topic string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if t := f.topics[topic]; t != nil && t.state != nil {
		f.sent[topic]++
	}
}
