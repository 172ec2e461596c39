package farm

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/hkdf"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"sync/atomic"
)

// The version of the farm's language. Nodes of different Major do not understand each other. A higher Minor has more
// fields, which older nodes leave alone.
const (
	Major = 1
	Minor = 1
)

const (
	keyIDSize = 4
	saltSize  = 12 // of the key of one message, so that no number of messages wears out the secret
	nonceSize = 12
	tagSize   = 16
	fixedBody = 8 + 8 // boot and sequence number
)

// ErrMalformed is returned for bytes that no node of this farm has sealed.
var ErrMalformed = errors.New("this is not a message of the farm")

// A strangerError says why a message comes from a node that is no member.
type strangerError struct{ name, why string }

func (e *strangerError) Error() string { return e.name + " is not a node of this farm: " + e.why }

// A Sealer seals messages under the farm's secret and opens them. Make it with NewSealer. Goroutines may share it.
//
// A sealed message has a head that all can read: the major version, which secret it is sealed under, and who sent it.
// Then come the salt of its key, the nonce and the body, encrypted: boot, sequence number, payload.
type Sealer struct{ keys atomic.Pointer[[]sealKey] }

type sealKey struct {
	id     [keyIDSize]byte
	master []byte
}

// A Purpose is what a sealed message is for. It opens for the same purpose only.
type Purpose struct {
	Topic string
	To    string // the address of a node; empty where all are told
	Reply string // the question that is answered: its ID
}

// A Sealed is an opened message.
type Sealed struct {
	From    Node
	Seq     uint64
	Payload []byte
	ID      string // what an answer to it names
}

// NewSealer returns a sealer under secrets: the first one seals, all open.
func NewSealer(secrets [][]byte) (*Sealer, error) {
	s := &Sealer{}
	return s, s.Renew(secrets)
}

// Renew replaces the secrets. On an error they stay.
func (s *Sealer) Renew(secrets [][]byte) error {
	if len(secrets) == 0 || len(secrets) > MaxSecrets {
		return fmt.Errorf("a farm has one secret or two, not %d: set farm.secret", len(secrets))
	}
	var keys []sealKey
	for _, secret := range secrets {
		if len(secret) < minSecret {
			return fmt.Errorf("a farm's secret of fewer than %d bytes is easily guessed: openssl rand -hex 32 makes one",
				minSecret)
		}
		var k sealKey
		var err error
		if k.master, err = hkdf.Key(sha256.New, secret, nil, "weir farm seal", sha256.Size); err != nil {
			return err
		}
		id, err := hkdf.Key(sha256.New, secret, nil, "weir farm fingerprint", keyIDSize)
		if err != nil {
			return err
		}
		copy(k.id[:], id)
		keys = append(keys, k)
	}
	s.keys.Store(&keys)
	return nil
}

// Fingerprint says which secret seals, without telling it.
func (s *Sealer) Fingerprint() string { return hex.EncodeToString((*s.keys.Load())[0].id[:]) }

// Seal seals a payload. It returns ErrTooLarge for more than a bus carries.
func (s *Sealer) Seal(p Purpose, from Node, seq uint64, payload []byte) ([]byte, error) {
	if !namable(from.Name) {
		return nil, fmt.Errorf("%q is not a name for a node: write up to %d letters, digits, '-' and '_'", from.Name, MaxNode)
	}
	headSize := 1 + keyIDSize + 1 + len(from.Name)
	if headSize+saltSize+nonceSize+fixedBody+len(payload)+tagSize > MaxMessage {
		return nil, ErrTooLarge
	}
	key := &(*s.keys.Load())[0]
	msg := make([]byte, 0, headSize+saltSize+nonceSize+fixedBody+len(payload)+tagSize)
	msg = append(msg, Major)
	msg = append(msg, key.id[:]...)
	msg = append(msg, byte(len(from.Name)))
	msg = append(msg, from.Name...)
	msg = msg[:headSize+saltSize+nonceSize]
	rand.Read(msg[headSize:])
	body := make([]byte, 0, fixedBody+len(payload))
	body = binary.BigEndian.AppendUint64(body, from.Boot)
	body = binary.BigEndian.AppendUint64(body, seq)
	body = append(body, payload...)
	aead := key.aead(msg[headSize : headSize+saltSize])
	return aead.Seal(msg, msg[headSize+saltSize:], body, additional(msg[:headSize], p)), nil
}

// Open opens a message. What it returns does not share memory with msg.
func (s *Sealer) Open(p Purpose, msg []byte) (Sealed, error) {
	if len(msg) < 1+keyIDSize+1 || len(msg) > MaxMessage {
		return Sealed{}, ErrMalformed
	}
	headSize := 1 + keyIDSize + 1 + int(msg[1+keyIDSize])
	if len(msg) < headSize {
		return Sealed{}, ErrMalformed
	}
	name := string(msg[1+keyIDSize+1 : headSize])
	if !namable(name) {
		return Sealed{}, ErrMalformed
	}
	if major := msg[0]; major != Major {
		who := "it"
		if major > Major {
			who = "this node"
		}
		return Sealed{}, &strangerError{name, fmt.Sprintf(
			"it speaks version %d of the farm's language, this node speaks %d: upgrade %s", major, Major, who)}
	}
	key := s.key([keyIDSize]byte(msg[1:]))
	if key == nil {
		return Sealed{}, &strangerError{name, fmt.Sprintf("it has another farm.secret (fingerprint %x, ours is %s): "+
			"give all nodes the same", msg[1:1+keyIDSize], s.Fingerprint())}
	}
	if len(msg) < headSize+saltSize+nonceSize+fixedBody+tagSize {
		return Sealed{}, ErrMalformed
	}
	salt, nonce := msg[headSize:headSize+saltSize], msg[headSize+saltSize:headSize+saltSize+nonceSize]
	body, err := key.aead(salt).Open(nil, nonce, msg[headSize+saltSize+nonceSize:], additional(msg[:headSize], p))
	if err != nil {
		return Sealed{}, ErrMalformed
	}
	return Sealed{
		From:    Node{name, binary.BigEndian.Uint64(body)},
		Seq:     binary.BigEndian.Uint64(body[8:]),
		Payload: body[fixedBody:],
		ID:      questionID(msg),
	}, nil
}

// questionID is what the answer to a sealed message names: its random part, which is no other message's.
func questionID(msg []byte) string {
	at := 1 + keyIDSize + 1 + int(msg[1+keyIDSize])
	return string(msg[at : at+saltSize+nonceSize])
}

func (s *Sealer) key(id [keyIDSize]byte) *sealKey {
	keys := *s.keys.Load()
	for i := range keys {
		if keys[i].id == id {
			return &keys[i]
		}
	}
	return nil
}

// aead is the cipher of one message.
func (k *sealKey) aead(salt []byte) cipher.AEAD {
	h := hmac.New(sha256.New, k.master)
	h.Write(salt)
	block, err := aes.NewCipher(h.Sum(nil))
	if err != nil {
		panic(err) // the key has the right size
	}
	aead, err := cipher.NewGCM(block)
	if err != nil {
		panic(err) // AES has the right block
	}
	return aead
}

// additional is what a seal vouches for besides the body. Lengths go before the texts: none can pass for a part of
// another.
func additional(head []byte, p Purpose) []byte {
	data := make([]byte, 0, len(head)+len(p.Topic)+len(p.To)+len(p.Reply)+16)
	data = append(data, head...)
	for _, text := range []string{p.Topic, p.To, p.Reply} {
		data = binary.BigEndian.AppendUint32(data, uint32(len(text)))
		data = append(data, text...)
	}
	return data
}

// Who records what nodes say and sends it again must not bring back a node that is gone. So the heartbeat of a run that
// is not up counts only with a proof that it is of now: the run sends back a nonce that it was asked with.

const nonceLength = 16

// A challenge asks a run for a proof.
type challenge struct {
	Nonce []byte `json:"nonce"`
}

// A proof is the answer: the last heartbeat, with the nonce.
type proof struct {
	Nonce []byte          `json:"nonce"`
	Seq   uint64          `json:"seq"` // of the heartbeat
	Beat  json.RawMessage `json:"beat"`
}

// A prover makes nonces, so that none has to be remembered. Its key lasts as long as this run.
type prover struct{ key [sha256.Size]byte }

func newProver() (p prover) {
	rand.Read(p.key[:])
	return p
}

// nonce is what a run is asked with at a time. It changes every LostAfter.
func (p *prover) nonce(who Node, at tick) []byte {
	h := hmac.New(sha256.New, p.key[:])
	_, _ = h.Write(binary.BigEndian.AppendUint64(nil, uint64(at/LostAfter))) // it cannot fail
	_, _ = h.Write([]byte(who.Address()))
	return h.Sum(nil)[:nonceLength]
}

// fresh reports whether a nonce was made for a run just now.
func (p *prover) fresh(nonce []byte, who Node, now tick) bool {
	return hmac.Equal(nonce, p.nonce(who, now)) || hmac.Equal(nonce, p.nonce(who, now-LostAfter))
}

// maxProofs is how many proofs are asked for, or given, in one step. Who goes unasked sends another heartbeat soon.
const maxProofs = 2 * MaxNodes

// prove asks a run for a proof.
func (f *Farm) prove(who Node) {
	if len(f.proofs) < maxProofs {
		payload, _ := json.Marshal(challenge{f.prover.nonce(who, f.now)}) // of bytes
		f.sendProof(challengeTopic, who, payload)
	}
}

// sendProof sends one node something about proofs. All have one row of numbers, which nobody looks at.
func (f *Farm) sendProof(topic string, to Node, payload []byte) {
	n := f.number(topic, payload)
	n.topic += to.Address()
	f.proofs = append(f.proofs, n)
}

// hearChallenge answers one who wants a proof, whoever that is: they may be unknown here yet.
func (f *Farm) hearChallenge(d *delivery) {
	var c challenge
	if err := json.Unmarshal(d.Payload, &c); err != nil || len(c.Nonce) != nonceLength {
		f.stats.Malformed++
		return
	}
	if len(f.proofs) < maxProofs {
		payload, _ := json.Marshal(proof{c.Nonce, f.sent[beatTopic], f.beat(f.last)}) // of numbers and texts
		f.sendProof(proofTopic, d.From, payload)
	}
}

// hearProof returns the heartbeat that was sent with a proof.
func (f *Farm) hearProof(d *delivery) (*delivery, bool) {
	var p proof
	if err := json.Unmarshal(d.Payload, &p); err != nil {
		f.stats.Malformed++
		return nil, false
	}
	if !f.prover.fresh(p.Nonce, d.From, f.now) {
		return nil, false
	}
	return &delivery{topic: beatTopic, Sealed: Sealed{From: d.From, Seq: p.Seq, Payload: p.Beat}}, true
}

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
