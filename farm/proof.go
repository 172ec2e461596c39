package farm

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
)

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
