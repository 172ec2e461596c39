package app

import (
	"context"
	"encoding/json"
	"fmt"

	"weir/store"
)

// audit notes in the audit log what an operator did, with what was there before and what is there now. An act that
// cannot be noted is done all the same: the store may be full while weir is under attack. The log says so then.
func (a *App) audit(ctx context.Context, by, what, about string, before, after any) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), keepPatience)
	defer cancel()
	text := fmt.Sprintf("%s: before %s, after %s", about, detail(before), detail(after))
	if len(text) > store.MaxEntryText {
		text = text[:store.MaxEntryText]
	}
	k := a.kept.Load()
	err := ErrNotServing
	if k != nil {
		err = k.store.Mail().Update(ctx, func(tx store.MailTx) error {
			return tx.Log(store.Entry{At: a.opts.Clock.Now(), By: by, What: what, Text: text})
		})
	}
	if err != nil {
		a.opts.Log.Error("an act is missing in the audit log", "by", by, "what", what, "err", err)
	}
}

// detail is something as the audit log has it: JSON.
func detail(v any) string {
	if v == nil {
		return "null"
	}
	text, err := json.Marshal(v)
	if err != nil {
		return "null"
	}
	return string(text)
}
