package partlog

// FileBudget bounds the files kept open by all logs that share it.
type FileBudget struct{ limit int }

// NewFileBudget returns a budget of limit open files; 0 means half of what
// the process may open.
func NewFileBudget(limit int) *FileBudget { return &FileBudget{limit: limit} }
