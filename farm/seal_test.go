package farm

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"
)

var (
	oldSecret = []byte("the old secret of the farm")
	newSecret = []byte("the new secret of the farm")
)

func sealer(t testing.TB, secrets ...[]byte) *Sealer {
	t.Helper()
	s, err := NewSealer(secrets)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestSeal(t *testing.T) {
	node := Node{"a", 7}
	s, both := sealer(t, oldSecret), sealer(t, newSecret, oldSecret)
	purpose := Purpose{Topic: "bans", To: "b.1", Reply: "x"}
	msg, err := s.Seal(purpose, node, 3, []byte("payload"))
	if err != nil {
		t.Fatal(err)
	}
	for _, opens := range []*Sealer{s, both} {
		got, err := opens.Open(purpose, msg)
		if err != nil || got.From != node || got.Seq != 3 || string(got.Payload) != "payload" || got.ID != questionID(msg) {
			t.Errorf("%+v %v", got, err)
		}
	}
	for _, other := range []Purpose{
		{Topic: "ban", To: "b.1", Reply: "x"}, {Topic: "bans", To: "b.2", Reply: "x"}, {Topic: "bans", To: "b.1"},
		{Topic: "bansb.1", Reply: "x"}, {Topic: "bans", To: "b.1x"},
	} {
		if _, err := s.Open(other, msg); !errors.Is(err, ErrMalformed) {
			t.Errorf("%+v: %v", other, err)
		}
	}
	for i := range msg {
		changed := bytes.Clone(msg)
		changed[i] ^= 1
		if _, err := s.Open(purpose, changed); err == nil {
			t.Errorf("byte %d may be changed", i)
		}
		if _, err := s.Open(purpose, msg[:i]); err == nil {
			t.Errorf("%d bytes are enough", i)
		}
	}
	if again, _ := s.Seal(purpose, node, 3, []byte("payload")); bytes.Equal(msg, again) {
		t.Error("two messages have the same nonce")
	}
	if bytes.Contains(msg, []byte("payload")) {
		t.Error("everybody can read it")
	}
}

func TestSealStrangers(t *testing.T) {
	s := sealer(t, oldSecret)
	msg, err := sealer(t, newSecret).Seal(Purpose{}, Node{"b", 1}, 1, nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		major byte
		want  string
	}{
		{1, "it has another farm.secret (fingerprint " + sealer(t, newSecret).Fingerprint() + ", ours is " + s.Fingerprint()},
		{2, "it speaks version 2 of the farm's language, this node speaks 1: upgrade this node"},
		{0, "it speaks version 0 of the farm's language, this node speaks 1: upgrade it"},
	} {
		msg[0] = test.major
		_, err := s.Open(Purpose{}, msg)
		var from *strangerError
		if !errors.As(err, &from) || from.name != "b" || !strings.HasPrefix(from.why, test.want) {
			t.Errorf("version %d: %v", test.major, err)
		}
	}
}

func TestSealBounds(t *testing.T) {
	s := sealer(t, oldSecret)
	long := Node{strings.Repeat("n", MaxNode), 1}
	head := partHead{Topic: strings.Repeat("t", MaxTopic), ID: 1 << 63, At: 1 << 63, K: maxParts, N: maxParts}
	part := makePart(head, make([]byte, MaxPlain+4))
	if msg, err := s.Seal(Purpose{}, long, 1, part); err != nil || len(msg) > MaxMessage {
		t.Errorf("the largest part of a snapshot: %d bytes, %v", len(msg), err)
	}
	if _, err := s.Seal(Purpose{}, long, 1, make([]byte, MaxMessage)); !errors.Is(err, ErrTooLarge) {
		t.Errorf("too large: %v", err)
	}
	if _, err := s.Open(Purpose{}, make([]byte, MaxMessage+1)); !errors.Is(err, ErrMalformed) {
		t.Errorf("opening too much: %v", err)
	}
	if _, err := s.Seal(Purpose{}, Node{"no name", 1}, 1, nil); err == nil {
		t.Error("a node without a proper name")
	}
	for _, secrets := range [][][]byte{nil, {[]byte("short")}, {oldSecret, newSecret, []byte("a third secret of the farm")}} {
		if _, err := NewSealer(secrets); err == nil {
			t.Errorf("%q are fine", secrets)
		}
	}
	if len(requestTopic+long.Address())+19 > MaxTopic { // a boot has up to 20 digits
		t.Error("the topic of requests is too long")
	}
}

func FuzzOpen(f *testing.F) {
	s := sealer(f, oldSecret, newSecret)
	for _, secret := range [][]byte{oldSecret, newSecret, []byte("the secret of a stranger")} {
		msg, err := sealer(f, secret).Seal(Purpose{Topic: "bans"}, Node{"a", 7}, 3, []byte("payload"))
		if err != nil {
			f.Fatal(err)
		}
		f.Add(msg)
		f.Add(msg[:len(msg)/2])
		f.Add(append([]byte{2}, msg[1:]...))
	}
	f.Add([]byte{})
	f.Add([]byte{1, 2, 3, 4, 5, 255})
	f.Fuzz(func(t *testing.T, msg []byte) {
		opened, err := s.Open(Purpose{Topic: "bans"}, msg)
		if err == nil && (opened.From != Node{"a", 7} || opened.Seq != 3 || string(opened.Payload) != "payload") {
			t.Errorf("a forgery: %+v", opened)
		}
		var from *strangerError
		if err != nil && !errors.Is(err, ErrMalformed) && (!errors.As(err, &from) || !namable(from.name)) {
			t.Errorf("%v", err)
		}
	})
}

func FuzzPart(f *testing.F) {
	f.Add(makePart(partHead{Topic: "bans", ID: 1, N: 1}, []byte("\x00\x00\x00\x01x")))
	f.Add(makePart(partHead{Topic: "bans", None: true}, nil))
	f.Add(makePart(partHead{Topic: "bans", ID: 1, N: 1, K: 1}, nil))
	f.Add([]byte{0, 2, '{', '}', 0, 0, 0, 9})
	f.Fuzz(func(t *testing.T, payload []byte) {
		h, msgs, err := parsePart(payload)
		if err != nil {
			return
		}
		var packed []byte
		for _, msg := range msgs {
			packed = append(binary.BigEndian.AppendUint32(packed, uint32(len(msg))), msg...)
		}
		if again, _, err := parsePart(makePart(h, packed)); err != nil || again != h {
			t.Errorf("%+v is %+v when read again: %v", h, again, err)
		}
		s := &stream{want: true}
		if !h.None && !s.take(&h, 0) {
			t.Errorf("%+v is of no use", h)
		}
	})
}

// Whatever members say must not bring a node down. They have the secret, but may be of a later version.
func FuzzTake(f *testing.F) {
	for i, payload := range []string{
		`{"minor":1,"raw":1,"sent":{"bans":3}}`, `{"beat":3}`, `{"topic":"bans","id":1,"missing":[0,-1,99999]}`,
		"\x00\x1e" + `{"topic":"bans","id":1,"n":1}  ` + "\x00\x00\x00\x00", `{"raw":-9223372036854775808}`, `{"sent":null}`,
	} {
		f.Add(uint8(i), uint64(i), []byte(payload))
	}
	f.Fuzz(func(t *testing.T, kind uint8, seq uint64, payload []byte) {
		now := time.Unix(1_800_000_000, 0)
		node, err := Join(Joining{Bus: nowhere{}, Node: Node{"b", 5}, Secrets: [][]byte{oldSecret}}, now)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := node.Keep("bans", deaf{}); err != nil {
			t.Fatal(err)
		}
		topics := []string{beatTopic, goodbyeTopic, requestTopic + "b.5", partTopic, "bans", challengeTopic + "b.5",
			proofTopic + "b.5"}
		for i, name := range []string{"a", "a", "b"} {
			if i == 1 {
				tell(t, node, Node{name, 1}, beatTopic, seq/2+1, []byte(`{"raw":1,"sent":{"bans":0}}`))
			}
			tell(t, node, Node{name, 1}, topics[int(kind)%len(topics)], seq, payload)
			now = now.Add(150 * time.Millisecond)
			if due := node.Advance(now); due.IsZero() || due.Sub(now) > LostAfter {
				t.Errorf("due %s after %s", due, now)
			}
		}
		if off := node.Offset(); off != 0 {
			t.Errorf("offset %s", off)
		}
	})
}

// tell hands a sealed message to a node, a heartbeat with the proof that it is of now.
func tell(t *testing.T, to *Farm, from Node, topic string, seq uint64, payload []byte) {
	if topic == beatTopic {
		topic = proofTopic + to.self.Address()
		proven, err := json.Marshal(proof{to.prover.nonce(from, to.now), seq, payload})
		if err != nil {
			t.Skip("it is no heartbeat")
		}
		payload = proven
	}
	msg, err := to.sealer.Seal(Purpose{Topic: topic}, from, seq, payload)
	if err != nil {
		t.Skip("more than a bus carries")
	}
	to.receive(topic)(msg)
}
