package app

import (
	"hash/maphash"
	"slices"
	"sync"
)

// maxUnderWay is how many recipients of one user may be under way: admitted, and not yet known to be sent.
const maxUnderWay = 10_000

// underWay remembers the recipients of messages that were admitted and not yet counted. Without it, messages judged at
// the same time would each find their user below the threshold. The zero value is not ready: use newUnderWay.
type underWay struct {
	seed   maphash.Seed
	shards [64]underWayShard
}

type underWayShard struct {
	mu sync.Mutex // held while a message of one of these users is judged
	of map[string][]string
}

func newUnderWay() *underWay { return &underWay{seed: maphash.MakeSeed()} }

func (u *underWay) shard(user string) *underWayShard {
	return &u.shards[maphash.String(u.seed, user)%uint64(len(u.shards))]
}

// judge calls may with the recipients that the user has under way, and adds those of this message if it may be sent.
// Messages of one user are judged one after the other. ok is false if too many are under way.
func (u *underWay) judge(user string, to []string, may func(underWay []string) (bool, error)) (ok bool, err error) {
	s := u.shard(user)
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.of[user])+len(to) > maxUnderWay {
		return false, nil
	}
	sent, err := may(s.of[user])
	if err == nil && sent {
		if s.of == nil {
			s.of = map[string][]string{}
		}
		s.of[user] = append(s.of[user], to...)
	}
	return true, err
}

// over takes recipients out: the message was sent and noted, or was not sent.
func (u *underWay) over(user string, to []string) {
	s := u.shard(user)
	s.mu.Lock()
	defer s.mu.Unlock()
	left := s.of[user]
	for _, person := range to {
		if i := slices.Index(left, person); i >= 0 {
			left = slices.Delete(left, i, i+1)
		}
	}
	if len(left) == 0 {
		delete(s.of, user)
	} else {
		s.of[user] = left
	}
}
