kernel.dynamic @open shape <8, ?> from <(a, b) : [a*3, b*-1]> to <(a, b) : [a, b, a:80], pad = zero> elements <f32 to f32>
