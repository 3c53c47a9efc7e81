package store

import (
	"encoding/json"

	bolt "go.etcd.io/bbolt"
)

// renamed holds the keys of values that files before schema 4 have under another name.
var renamed = map[string]string{"admissions": "wants", "partition": "border"}

// current returns a value of such a file as it is written now: the partition's own field had the
// name of its key.
func current(key string, text []byte) ([]byte, error) {
	if key != "partition" {
		return text, nil
	}
	var fields map[string]json.RawMessage
	if err := json.Unmarshal(text, &fields); err != nil {
		return nil, err
	}
	if old, ok := fields["border"]; ok {
		delete(fields, "border")
		fields["partition"] = old
	}
	return json.Marshal(fields)
}

// rename moves values of a file before schema 4 to their present keys.
func rename(tx *bolt.Tx) error {
	t, err := openTable(tx, bucketValues)
	if err != nil {
		return err
	}
	for key, old := range renamed { // in any order
		value := t.bucket.Get([]byte(old))
		if value == nil {
			continue
		}
		text, _, err := unseal(bucketValues, []byte(old), value)
		if err != nil {
			return err
		}
		if text, err = current(key, text); err != nil {
			return err
		}
		if err := t.putText([]byte(key), text); err != nil {
			return err
		}
		if err := t.delete([]byte(old)); err != nil {
			return err
		}
	}
	return t.save()
}
