// Package parcel packs lists of words, in JSON, into messages between nodes that are not too large.
package parcel

import (
	"encoding/json"
	"fmt"
)

// Most is how many bytes a message has at most. A farm takes a little more.
const Most = 60 << 10

// A message is what nodes send each other.
type message struct {
	Version int               `json:"v"`
	Words   []json.RawMessage `json:"w"`
}

// A Packer packs words into messages, and gives them away until that fails.
type Packer struct {
	Version int
	Give    func(msg []byte) bool

	buf   []byte
	ended bool
}

// Add packs a word, which must be one that can be written.
func (p *Packer) Add(word any) {
	text, err := json.Marshal(word)
	if err != nil || p.ended {
		return
	}
	if len(p.buf)+len(text)+len("],}") > Most {
		p.Flush()
	}
	if len(p.buf) == 0 {
		p.buf = fmt.Appendf(make([]byte, 0, 4<<10), `{"v":%d,"w":[`, p.Version)
	} else {
		p.buf = append(p.buf, ',')
	}
	p.buf = append(p.buf, text...)
}

// Flush gives away what is packed.
func (p *Packer) Flush() {
	if len(p.buf) == 0 || p.ended {
		return
	}
	p.ended = !p.Give(append(p.buf, "]}"...))
	p.buf = nil
}

// Open returns the words of a message about something, each to be read by itself.
func Open(msg []byte, version int, about string) ([]json.RawMessage, error) {
	if len(msg) > Most {
		return nil, fmt.Errorf("a message of %d bytes about %s, at most %d", len(msg), about, Most)
	}
	var m message
	if err := json.Unmarshal(msg, &m); err != nil {
		return nil, fmt.Errorf("a message about %s cannot be read: %w", about, err)
	}
	if m.Version != version {
		return nil, fmt.Errorf("a message about %s has version %d, this weir knows %d: update the older node", about,
			m.Version, version)
	}
	return m.Words, nil
}
