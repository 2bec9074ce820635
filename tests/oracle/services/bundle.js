// SPDX-License-Identifier: Apache-2.0
import * as d3 from 'd3';
import _ from 'lodash-es';
import * as rxjs from 'rxjs';
import * as three from 'three';

console.log(Object.keys({ ...d3, ..._, ...rxjs, ...three }).length);
