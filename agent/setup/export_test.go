package setup

// WithoutComments removes the comments of Gemini CLI's settings.
var WithoutComments = withoutComments
