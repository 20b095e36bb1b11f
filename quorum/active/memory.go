package active

// memory matches retries with the requests of the open claim that wrote something. It is bounded; the oldest is
// forgotten first. The zero value is empty.
type memory struct {
	byKey map[opKey]*decided
	// order is a ring of the keys in byKey, oldest at next once it is full.
	order []opKey
	next  int
}

// find returns the decision that a request with this key led to.
func (m *memory) find(key opKey) *decided {
	if key == (opKey{}) {
		return nil
	}
	return m.byKey[key]
}

// add remembers a decision.
func (m *memory) add(key opKey, d *decided) {
	if key == (opKey{}) {
		return
	}
	if m.byKey == nil {
		m.byKey = map[opKey]*decided{}
	}
	if len(m.order) < maxRemembered {
		m.order = append(m.order, key)
	} else {
		delete(m.byKey, m.order[m.next])
		m.order[m.next] = key
		m.next = (m.next + 1) % maxRemembered
	}
	m.byKey[key] = d
}

func (m *memory) clear() { *m = memory{} }
