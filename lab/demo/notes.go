package demo

import "sync"

// maxNotes bounds what is told between two looks.
const maxNotes = 100

// notes are what has happened and was not shown yet. The zero value is empty. Safe for concurrent use.
type notes struct {
	mu   sync.Mutex
	list []string
}

func (n *notes) add(texts ...string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.list = append(n.list, texts[:min(len(texts), maxNotes-len(n.list))]...)
}

// take returns them, and is empty then.
func (n *notes) take() []string {
	n.mu.Lock()
	defer n.mu.Unlock()
	list := n.list
	n.list = nil
	return list
}

// Note tells whoever watches what has happened.
func (s *Stage) Note(texts ...string) { s.notes.add(texts...) }
