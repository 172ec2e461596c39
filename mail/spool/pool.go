package spool

import (
	"context"
	"time"

	"weir/store"
)

// learnPooled learns whether something waits in the pool.
func (d *delivery) learnPooled(ctx context.Context) error {
	return d.store.View(ctx, func(tx store.MailTx) error {
		_, states, err := tx.Count()
		d.pooled.Store(states[store.Pooled] > 0)
		return err
	})
}

// drainPool lets mail without stamps go where there is little to do.
func (d *delivery) drainPool(ctx context.Context, now time.Time) error {
	if !d.pooled.Load() {
		return nil
	}
	moved := 0
	err := d.update(ctx, func(tx store.MailTx) error {
		moved = 0
		rows, err := tx.Ready(now, true, handBatch)
		if err != nil {
			return err
		}
		all, free, found := d.gates.Load(), map[string]int{}, false
		for i := range rows {
			a := &rows[i]
			if a.State != store.Pooled {
				continue
			}
			found = true
			l, err := tx.Letter(a.Mail)
			if err != nil {
				return err
			}
			if _, known := free[l.Gate]; !known {
				free[l.Gate] = all.way(l.Gate).poolable()
			}
			if free[l.Gate] <= 0 {
				continue
			}
			free[l.Gate]--
			makeReady(a, now)
			if err := tx.PutAddressees(*a); err != nil {
				return err
			}
			moved++
		}
		d.pooled.Store(found)
		return nil
	})
	if err != nil || moved == 0 {
		return err
	}
	return d.handDue(ctx, now)
}
