package compare

import (
	"fmt"
	"io"
	"strings"
)

// signs of a change at the start of a line, as diff has them.
var signs = map[string]string{Added: "+", Removed: "-", Changed: "~"}

// Text writes the difference for a person: a line for each object, with what it was and what it is.
func (d *Difference) Text(w io.Writer) error {
	var b strings.Builder
	if len(d.Cluster) > 0 {
		fmt.Fprintf(&b, "~ cluster: %s\n", changes(Changed, d.Cluster))
	}
	for _, n := range d.Brokers {
		fmt.Fprintf(&b, "%s broker %d: %s\n", signs[n.Change], n.ID, changes(n.Change, n.Fields))
	}
	for _, n := range d.Controllers {
		fmt.Fprintf(&b, "%s quorum node %d: %s\n", signs[n.Change], n.ID, changes(n.Change, n.Fields))
	}
	for i := range d.Topics {
		d.Topics[i].text(&b)
	}
	for _, s := range d.Settings {
		fmt.Fprintf(&b, "~ %s %s: %s -> %s\n", s.Resource, s.Key, value(s.A), value(s.B))
	}
	_, err := io.WriteString(w, b.String())
	return err
}

func (t *Topic) text(b *strings.Builder) {
	if t.Change != Changed {
		fmt.Fprintf(b, "%s topic %s (%s): %d partitions\n", signs[t.Change], t.Name, t.ID, t.NumPartitions)
		return
	}
	for _, p := range t.Partitions {
		fmt.Fprintf(b, "%s topic %s partition %d: %s\n", signs[p.Change], t.Name, p.Partition, changes(p.Change, p.Fields))
	}
}

// changes words the fields: both sides of what changed, the one side of what only one has.
func changes(change string, list []Field) string {
	texts := make([]string, 0, len(list))
	for _, f := range list {
		switch change {
		case Added:
			texts = append(texts, fmt.Sprintf("%s %s", f.Name, f.B))
		case Removed:
			texts = append(texts, fmt.Sprintf("%s %s", f.Name, f.A))
		default:
			texts = append(texts, fmt.Sprintf("%s %s -> %s", f.Name, orNone(f.A), orNone(f.B)))
		}
	}
	return strings.Join(texts, ", ")
}

func orNone(text string) string {
	if text == "" {
		return "none"
	}
	return text
}

func value(v *string) string {
	if v == nil {
		return "not set"
	}
	return fmt.Sprintf("%q", *v)
}
