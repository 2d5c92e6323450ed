kernel.dynamic @open shape <?> from <(a) : [a]> to <(a) : [a, a:8], pad = 1, lo = [1]> elements <f32 to f32>
