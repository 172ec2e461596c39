package spool

import (
	"cmp"
	"context"
	"errors"
	"sync/atomic"

	"weir/store"
)

var errBroken = errors.New("the disk is on fire")

// breakable is a store that fails on demand: a fault that cannot be made otherwise.
type breakable struct {
	store.Mail
	fails atomic.Bool
	why   error // nil: errBroken
}

func (b *breakable) Update(ctx context.Context, f func(store.MailTx) error) error {
	if b.fails.Load() {
		return cmp.Or(b.why, errBroken)
	}
	return b.Mail.Update(ctx, f)
}
