package parcel

import (
	"encoding/json"
	"strings"
	"testing"
)

// TestWords: all words arrive, in order, in messages of which none is too large.
func TestWords(t *testing.T) {
	const words = 100
	var got []string
	messages := 0
	p := Packer{Version: 3, Give: func(msg []byte) bool {
		messages++
		all, err := Open(msg, 3, "words")
		if err != nil || len(msg) > Most {
			t.Fatalf("%d bytes: %v", len(msg), err)
		}
		for _, raw := range all {
			var word string
			if err := json.Unmarshal(raw, &word); err != nil {
				t.Fatal(err)
			}
			got = append(got, word)
		}
		return true
	}}
	for range words {
		p.Add(strings.Repeat("x", Most/10))
	}
	p.Flush()
	p.Flush() // there is nothing
	if len(got) != words || messages != 12 {
		t.Errorf("%d words in %d messages", len(got), messages)
	}
}

func TestGiveEnds(t *testing.T) {
	given := 0
	p := Packer{Version: 1, Give: func([]byte) bool { given++; return false }}
	for range 30 {
		p.Add(strings.Repeat("x", Most/10))
	}
	if p.Flush(); given != 1 {
		t.Errorf("%d messages", given)
	}
}

func TestOpenRefuses(t *testing.T) {
	for text, want := range map[string]string{"": "cannot be read", `{"v":2,"w":[]}`: "version 2",
		`{"v":1,"w":[` + strings.Repeat(" ", Most) + `]}`: "at most"} {
		if _, err := Open([]byte(text), 1, "words"); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%.20q: %v", text, err)
		}
	}
}
