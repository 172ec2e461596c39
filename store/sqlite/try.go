package sqlite

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
)

// Try does to the disk what a message does, and changes nothing: it writes to the database, and to a file in the folder
// of mail. It returns why that does not work. No two goroutines may call it at once.
func (s *Store) Try(ctx context.Context) error {
	err := s.write(ctx, 1, func(t *tx) error {
		_, err := t.run(fmt.Sprintf("PRAGMA application_id = %d", applicationID)) // what it is already
		return err
	})
	return errors.Join(err, unwritten(s.texts.try()))
}

func (t *texts) try() error {
	if err := t.makeFolder(t.folder); err != nil {
		return err
	}
	path := filepath.Join(t.folder, "try"+unsealed)
	file, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	_, err = file.WriteString("try")
	return errors.Join(err, file.Sync(), file.Close(), os.Remove(path))
}
